"""What meets people: the command line. Arguments in, the journal's verbs, text or JSON out, and an exit code."""
