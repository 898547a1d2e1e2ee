{{ config(
    materialized='incremental',
    pre_hook="delete from {{ this }} where posting_period = '{{ var('period') }}'"
) }}

-- the pre-hook empties the period, so the insert below is a replacement
-- run with: dbt run -s gl_balances --vars '{period: 202405}'

with lines as (
    select posting_period, account_no, cost_center, debit, credit
    from {{ ref('stg_gl_lines') }}
    where posting_period = '{{ var('period') }}'
      and not is_reversed
)

select
    posting_period,
    account_no,
    cost_center,
    sum(debit) as debit,
    sum(credit) as credit,
    sum(debit) - sum(credit) as balance
from lines
group by 1, 2, 3
