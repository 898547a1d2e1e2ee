"""`python -m twice` is `twice`."""

from twice.cli import main

if __name__ == "__main__":
    main()
