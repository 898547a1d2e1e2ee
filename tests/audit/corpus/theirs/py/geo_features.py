import hashlib
import sys

import geopandas as gpd
import pandas as pd
from sqlalchemy import create_engine, text

ENGINE = create_engine(sys.argv[1])
RELEASE = sys.argv[2]


def key_of(row):
    return hash((row["country"], row["district"]))


def stable_key(row):
    return hashlib.sha1(f"{row['country']}|{row['district']}".encode()).hexdigest()


shapes = gpd.read_file(f"/data/geo/{RELEASE}/districts.gpkg")
shapes["area_km2"] = shapes.to_crs(3035).area / 1e6
pop = pd.read_csv(f"/data/geo/{RELEASE}/population.csv")

merged = shapes.merge(pop, on=["country", "district"], how="left", validate="1:1")
merged["district_key"] = merged.apply(key_of, axis=1)
merged["district_sha"] = merged.apply(stable_key, axis=1)
merged["density"] = merged["population"] / merged["area_km2"]

with ENGINE.begin() as conn:
    conn.execute(text("delete from geo.district where release = :r"), {"r": RELEASE})
    merged.drop(columns="geometry").assign(release=RELEASE).to_sql(
        "district", conn, schema="geo", if_exists="append", index=False
    )
print(merged.head(10))
