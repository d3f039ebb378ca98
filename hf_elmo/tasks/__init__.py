"""Fine-tuning ELMo for tasks."""
