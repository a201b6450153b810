"""`trm-eval`, and `python -m trm_eval`."""

from trm_data.commands.start import start


def main() -> None:
    """Run `trm-eval` on the words of the command line."""
    start("trm-eval", "trm_eval.cli")


if __name__ == "__main__":
    main()
