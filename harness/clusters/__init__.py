"""Clusters: one interface (`base`), three kinds (`local`, `docker`, `external`), products as target files."""
