"""The corpus: published Triton issues rebuilt as plain files, their ground truth, and modelled device outputs."""
