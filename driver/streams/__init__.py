"""Publishers and subscriptions: cores without input and output, and threads around them."""
