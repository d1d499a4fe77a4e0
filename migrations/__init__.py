"""Alembic migrations, equal on SQLite and PostgreSQL. `gramian migrate` runs them."""
