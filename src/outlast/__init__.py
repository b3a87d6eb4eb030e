"""Agent and chat streams that outlive what carries them."""
