"""The program: `mexma`, and `python -m mexma_cli`, so that `torchrun -m mexma_cli train ...` works."""

import signal


def main() -> None:
    """Run the command line. While it is imported, Ctrl-C ends the process at once, without a traceback."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mexma_cli.main import cli

    signal.signal(signal.SIGINT, heard)
    cli(prog_name="mexma")


if __name__ == "__main__":
    main()
