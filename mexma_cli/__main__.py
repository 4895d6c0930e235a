"""`python -m mexma_cli`, so that `torchrun -m mexma_cli train ...` works."""

from mexma_cli.main import cli

if __name__ == "__main__":
    cli(prog_name="mexma")
