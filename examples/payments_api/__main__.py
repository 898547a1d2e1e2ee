"""Run the payments provider: python -m examples.payments_api --port 8400."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from examples.payments_api.charges import Charges
from examples.payments_api.provider import Provider
from examples.payments_api.server import Server
from examples.payments_api.trouble import Limit, Trouble
from examples.shop.sizes import CUSTOMERS, ORDERS_PER_DAY


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C; the first line that is printed is the address."""
    parser = argparse.ArgumentParser(prog="python -m examples.payments_api", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port (default)")
    parser.add_argument("--orders", type=int, default=ORDERS_PER_DAY, help="orders per day (default: %(default)s)")
    parser.add_argument("--per-second", type=float, default=25, help="calls before a 429 (default: %(default)s)")
    parser.add_argument("--errors", type=int, default=2, help="of 100 calls answered by a 500 (default: %(default)s)")
    parser.add_argument("--slow", type=int, default=2, help="of 100 calls answered late (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which calls these are (default: %(default)s)")
    parser.add_argument("--key", default="", help="the API key to ask for (default: none)")
    given = parser.parse_args(arguments)
    provider = Provider(
        Charges(given.orders, CUSTOMERS),
        Trouble(given.seed, given.errors, given.slow),
        Limit(given.per_second, burst=max(1, int(given.per_second))),
        given.key,
    )
    with Server(provider, given.port) as server:
        print(server.url, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
