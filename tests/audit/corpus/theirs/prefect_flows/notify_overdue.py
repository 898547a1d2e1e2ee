import httpx
from prefect import flow, task
from prefect.tasks import task_input_hash
from sqlalchemy import create_engine, text

ENGINE = create_engine("postgresql://lib@db/library")


@task
def overdue(day: str) -> list[dict]:
    with ENGINE.connect() as c:
        rows = c.execute(
            text(
                "select l.loan_id, l.member_id, m.phone from loan l join member m using (member_id) "
                "where l.due_on < :d and l.returned_on is null and l.reminded_for is distinct from :d order by l.loan_id"
            ),
            {"d": day},
        )
        return [dict(r._mapping) for r in rows]


@task(cache_key_fn=task_input_hash, retries=2)
def remind(loan: dict, day: str) -> None:
    r = httpx.post(
        "https://sms.example/v1/messages",
        json={"to": loan["phone"], "text": "A book of yours is overdue."},
        headers={"Idempotency-Key": f"overdue-{loan['loan_id']}-{day}"},
    )
    r.raise_for_status()
    with ENGINE.begin() as c:
        c.execute(text("update loan set reminded_for = :d where loan_id = :i"), {"d": day, "i": loan["loan_id"]})


@flow
def notify_overdue(day: str):
    for loan in overdue(day):
        remind(loan, day)
