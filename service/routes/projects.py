"""Projects: who works apart from whom. `gramian projects` does the same at the database."""

from fastapi import APIRouter

from service.authorization import OPERATOR, READ
from service.callers import CallerDep
from service.dependencies import ReadingDep, WritingDep
from service.problems import responses
from service.schemas.projects import Access, Project, ProjectList, ProjectRequest

BODY_LIMIT_BYTES = 64 * 1024

router = APIRouter(prefix="/v1", tags=["access"], responses=responses(401, 403))


@router.post(
    "/projects",
    status_code=201,
    dependencies=[OPERATOR],
    max_body_size=BODY_LIMIT_BYTES,
    responses=responses(400, 409, 413, 422),
)
def create_project(body: ProjectRequest, uow: WritingDep) -> Project:
    """Make a project. Then make its first key: `POST /v1/keys` with `"project"`."""
    row = uow.projects.create(body.name)
    uow.audit.note("project.created", row.id, name=row.name)
    return Project.model_validate(row)


@router.get("/projects", dependencies=[OPERATOR])
def list_projects(uow: ReadingDep) -> ProjectList:
    """All projects, by name."""
    return ProjectList(items=[Project.model_validate(row) for row in uow.projects.list()])


@router.get("/access", dependencies=[READ])
def get_access(caller: CallerDep, uow: ReadingDep) -> Access:
    """What you may do with the key that you sent, and in which project."""
    project = uow.projects.get(caller.project_id)
    return Access(project=project.name, scope=caller.scope, key_id=caller.key_id)
