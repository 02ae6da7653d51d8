"""What is asked of operations and what they answer: values, from which the API and its document are made."""
