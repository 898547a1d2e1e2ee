import uuid
import logging
from sqlalchemy import create_engine, text

engine = create_engine("postgresql+psycopg2://loyalty@db/loyalty")
logger = logging.getLogger("points")


def award_points(day):
    with engine.begin() as conn:
        purchases = conn.execute(
            text("select customer_id, sum(total) as total from purchases where purchase_day = :d group by customer_id"),
            {"d": day},
        ).fetchall()
        for p in purchases:
            points = int(p.total // 10)
            conn.execute(
                text("insert into point_booking (booking_id, customer_id, points, purchase_day) values (:i, :c, :p, :d)"),
                {"i": str(uuid.uuid4()), "c": p.customer_id, "p": points, "d": day},
            )
            conn.execute(
                text("""
                    insert into point_balance (customer_id, balance)
                    values (:c, :p)
                    on conflict (customer_id) do update set balance = point_balance.balance + excluded.balance
                """),
                {"c": p.customer_id, "p": points},
            )
        logger.info("%s customers got points", len(purchases))


def expire(day):
    with engine.begin() as conn:
        conn.execute(text("update point_booking set expired = true where purchase_day < cast(:d as date) - interval '2 years'"), {"d": day})


if __name__ == "__main__":
    import sys

    award_points(sys.argv[1])
    expire(sys.argv[1])
