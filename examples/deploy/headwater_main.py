"""Entry point for spark-submit: pass the arguments to the `headwater` command."""

from headwater.cli.main import main

main()
