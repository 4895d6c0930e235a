"""Where units of work run: processes of this machine, Slurm or Ray. They know nothing of the units."""
