import json
import sys
from pathlib import Path


def tags_of(doc):
    return {t.strip().lower() for t in doc.get("tags", "").split(",") if t.strip()}


def main(src, dst):
    docs = [json.loads(l) for l in Path(src).read_text().splitlines()]
    all_tags = set()
    for d in docs:
        all_tags |= tags_of(d)

    with open(dst + "/tags.csv", "w") as fh:
        for n, tag in enumerate(all_tags):
            fh.write(f"{n},{tag}\n")

    with open(dst + "/doc_tags.csv", "w") as fh:
        for d in docs:
            for tag in sorted(tags_of(d)):
                fh.write(f"{d['id']},{tag}\n")

    seen = {d["id"] for d in docs}
    print(len(seen), "documents,", len(all_tags), "tags")
    bucket = {}
    for d in docs:
        bucket.setdefault(hash(d["id"]) % 16, []).append(d)
    for b, items in bucket.items():
        Path(dst, f"part-{b:02d}.jsonl").write_text("\n".join(json.dumps(i, sort_keys=True) for i in items))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
