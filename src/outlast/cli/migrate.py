"""The command that brings a store's schema up to date, or prints how."""

import click

from outlast.assembly.settings import PREFIX, STORE
from outlast.assembly.stores import file_of, migrate_store, migration_script


@click.command()
@click.option(
    "--store",
    metavar="URL",
    envvar=f"{PREFIX}STORE",
    default=STORE,
    show_default=True,
    show_envvar=True,
    help="The store to migrate.",
)
@click.option("--print", "prints", is_flag=True, help="Print the whole schema as one SQL script, and change nothing.")
def migrate(store: str, *, prints: bool) -> int:
    """Bring a store to the schema of this version of Outlast.

    A server does the same when it starts. Of several processes that migrate at once one does it, and the others find
    it done. A store that a newer version has migrated is refused and left as it is.
    """
    if prints:
        click.echo(migration_script(), nl=False)
        return 0
    before, after = migrate_store(store)
    path = file_of(store).absolute()
    if before == after:
        click.echo(f"{path} has schema version {after} already: nothing was done.")
    elif before == 0:
        click.echo(f"{path} is a new store now, with schema version {after}.")
    else:
        click.echo(f"{path} went from schema version {before} to {after}.")
    return 0
