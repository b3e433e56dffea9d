"""What the runs say: tables, families of comparisons, two groups side by side, the ledger of claims."""
