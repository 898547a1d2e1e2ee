"""The pipeline of bench/backfill.py, for one namespace."""

import backfill

bench = backfill.pipeline_of("$raw", "$space")
