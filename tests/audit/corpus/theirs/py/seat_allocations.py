import os
import sys

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

meta = sa.MetaData()
seats = sa.Table(
    "seat", meta,
    sa.Column("flight", sa.Text, primary_key=True),
    sa.Column("seat_no", sa.Text, primary_key=True),
    sa.Column("passenger", sa.Text),
    sa.Column("revision", sa.Integer),
)


def read(path):
    df = pd.read_csv(path, dtype=str)
    df["revision"] = df["revision"].astype(int)
    df = df.sort_values(["flight", "seat_no", "revision"]).drop_duplicates(["flight", "seat_no"], keep="last")
    return df.to_dict("records")


def main(path):
    engine = sa.create_engine(os.environ["AIR_DB"])
    rows = read(path)
    with engine.begin() as conn:
        stmt = insert(seats).values(rows)
        stmt = stmt.on_conflict_do_update(
            index_elements=["flight", "seat_no"],
            set_={"passenger": stmt.excluded.passenger, "revision": stmt.excluded.revision},
            where=seats.c.revision < stmt.excluded.revision,
        )
        conn.execute(stmt)
    print(f"{len(rows)} seats")


if __name__ == "__main__":
    main(sys.argv[1])
