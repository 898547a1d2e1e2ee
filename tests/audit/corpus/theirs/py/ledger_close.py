import sys
import psycopg2

DSN = "dbname=ledger"


def main(period):
    conn = psycopg2.connect(DSN)
    try:
        with conn:
            with conn.cursor() as cur:
                cur.execute("DELETE FROM closing WHERE period = %s AND company = 'DE01'", (period,))
                cur.execute(
                    """
                    INSERT INTO closing (period, company, account, amount)
                    SELECT %s, company, account, sum(amount)
                    FROM journal
                    WHERE period = %s
                    GROUP BY company, account
                    """,
                    (period, period),
                )
                cur.execute("UPDATE period SET state = 'closed' WHERE period = %s", (period,))
                print("closed", period, cur.rowcount)
    finally:
        conn.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: ledger_close.py YYYYMM")
        sys.exit(2)
    main(sys.argv[1])
