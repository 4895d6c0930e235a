"""Where units of work run: processes of this machine, or Slurm. They know nothing of the units."""
