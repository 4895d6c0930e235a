"""Where units of work run: processes of this machine."""
