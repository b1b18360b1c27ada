"""From chest X-rays to features: a DenseNet-121 with weights of one's own choice (needs the extra ``xray``)."""
