"""`python -m app.cli` is `hone`."""

from app.cli import main

if __name__ == "__main__":
    main()
