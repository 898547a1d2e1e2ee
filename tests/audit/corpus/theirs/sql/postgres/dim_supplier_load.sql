/*
 * Supplier dimension, type 1.
 * Staging is filled by the file loader before.
 */
CREATE SEQUENCE IF NOT EXISTS dwh.supplier_seq;

CREATE TABLE IF NOT EXISTS dwh.dim_supplier (
    supplier_key   bigint PRIMARY KEY,
    supplier_no    text NOT NULL,
    supplier_name  text,
    country        text,
    etl_loaded_at  timestamptz DEFAULT now()
);

TRUNCATE TABLE dwh.dim_supplier;

INSERT INTO dwh.dim_supplier (supplier_key, supplier_no, supplier_name, country)
SELECT nextval('dwh.supplier_seq'),
       s.supplier_no,
       s.supplier_name,
       upper(s.country)
FROM (
    SELECT DISTINCT ON (supplier_no) supplier_no, supplier_name, country
    FROM stage.supplier
) s;

CREATE INDEX ix_dim_supplier_no ON dwh.dim_supplier (supplier_no);

-- unknown member
INSERT INTO dwh.dim_supplier (supplier_key, supplier_no, supplier_name)
VALUES (-1, 'n/a', 'unknown');

DROP TABLE stage.supplier;
