"""`trm-eval`, and `python -m trm_eval`."""


def main() -> None:
    """Run `trm-eval` on the words of the command line."""
    from trm_eval.cli import main

    main()


if __name__ == "__main__":
    main()
