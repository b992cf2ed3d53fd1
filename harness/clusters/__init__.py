"""Clusters under test: one interface (`base`), three kinds (`local`, `docker`, `external`), products as target files."""
