"""Who may do what. Every route declares a scope by one of READ, WRITE, ADMIN and OPERATOR, or that it is PUBLIC."""

from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from gramian.errors import KeyRequired, ScopeMissing
from gramian.keys import Scope
from service.callers import KEY_HINT, Caller, identify

bearer = HTTPBearer(auto_error=False, scheme_name="key", description="`Authorization: Bearer gr_…`")


async def require(
    scopes: SecurityScopes,
    caller: Annotated[Caller | None, Depends(identify)],
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],  # for the contract; `identify` has read it
) -> None:
    """Refuse whoever may not do what a route is for."""
    for needed in map(Scope, scopes.scopes):
        if caller is None:
            raise KeyRequired(f"this needs a live access key with the scope {needed}", hint=KEY_HINT)
        check_scope(caller, needed)


def check_scope(caller: Caller, needed: Scope) -> None:
    """Refuse a caller whose key does not permit this much."""
    if not caller.scope.includes(needed):
        raise ScopeMissing(
            f"the key has the scope {caller.scope}, this needs {needed}", hint="ask for a key with that scope"
        )


READ = Security(require, scopes=[Scope.READ])
WRITE = Security(require, scopes=[Scope.WRITE])
ADMIN = Security(require, scopes=[Scope.ADMIN])
OPERATOR = Security(require, scopes=[Scope.OPERATOR])

#: For routes that ask for nothing: said in the contract, so that it cannot be an oversight.
PUBLIC: dict[str, list[object]] = {"security": []}
