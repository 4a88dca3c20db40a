-- The calls of tools of MCP servers that people were asked to approve, and what became of them.
CREATE TABLE mcp_approvals (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    approval TEXT NOT NULL
) STRICT;
CREATE INDEX mcp_approvals_by_session ON mcp_approvals (owner, session, number, bytes);
CREATE INDEX mcp_approvals_by_access ON mcp_approvals (accessed);
