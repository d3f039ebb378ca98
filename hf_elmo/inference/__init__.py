"""Looking into what a trained model has learned."""
