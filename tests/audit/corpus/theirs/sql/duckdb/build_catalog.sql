-- duckdb catalog.duckdb < build_catalog.sql
-- everything is rebuilt from the files of the release
INSTALL httpfs;
LOAD httpfs;

CREATE OR REPLACE TABLE product AS
SELECT * FROM read_parquet('s3://catalog/products/2024-05-01/*.parquet');

CREATE OR REPLACE TABLE best_offer AS
SELECT product_id, arg_min(seller_id, (price, seller_id)) AS seller_id, min(price) AS price
FROM read_csv_auto('s3://catalog/offers/2024-05-01.csv')
GROUP BY product_id;

CREATE OR REPLACE VIEW product_with_offer AS
SELECT p.*, o.seller_id, o.price
FROM product p LEFT JOIN best_offer o USING (product_id);

COPY (SELECT * FROM product_with_offer ORDER BY product_id) TO 'catalog_2024-05-01.parquet' (FORMAT parquet);

SUMMARIZE product;
