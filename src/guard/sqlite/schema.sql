-- sqlite.sql - what pawl keeps in an SQLite database: for each resource the greatest token that was admitted. The guard sqlite:
-- makes it itself; here it is for programs that have nothing but SQL. Every statement may be run again.
--
--      INSERT INTO pawl_admit(resource, token) VALUES ('orders/42', 34);
--
-- inside a transaction admits a token, or fails; the marks are read in pawl_admit too.
--
--      INSERT INTO pawl_swap(resource, version) VALUES ('prices', 7);
--
-- is for resources that have a version instead of a lock: it fails unless the version is 7, and makes it 8. SELECT version FROM
-- pawl_swap WHERE resource = 'prices' reads it, beside the data, in the transaction that reads them; no row is version
-- (SELECT token FROM pawl_floor). A resource is used one way or the other, not both.

-- The marks. Written through pawl_admit alone: a mark that is removed or lowered lets old tokens pass.
CREATE TABLE IF NOT EXISTS pawl_mark(
        resource TEXT NOT NULL PRIMARY KEY CHECK (typeof(resource) = 'text' AND length(resource) BETWEEN 1 AND 255),
        token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)
) WITHOUT ROWID;

-- One row: the layout's version, and the least token for resources that have no mark (pawl prune).
CREATE TABLE IF NOT EXISTS pawl_floor(
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        version INTEGER NOT NULL,
        token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token >= 0)
);
INSERT INTO pawl_floor(one, version, token) SELECT 1, 1, 0 WHERE NOT EXISTS (SELECT 1 FROM pawl_floor);

-- What pawl put keeps. Programs with tables of their own do not need it.
CREATE TABLE IF NOT EXISTS pawl_data(
        resource TEXT NOT NULL PRIMARY KEY,
        data BLOB NOT NULL
);

CREATE VIEW IF NOT EXISTS pawl_admit(resource, token) AS SELECT resource, token FROM pawl_mark;

-- RAISE, and no constraint, refuses: INSERT OR IGNORE would pass over a constraint in silence. A NULL on either side of a
-- comparison, a floor that is missing say, refuses too. UPDATE and INSERT in place of ON CONFLICT, for the same reason.
CREATE TRIGGER IF NOT EXISTS pawl_admit_token INSTEAD OF INSERT ON pawl_admit
BEGIN
        SELECT RAISE(ABORT, 'pawl: a resource is a text of 1 to 255 letters, without control characters')
        WHERE typeof(NEW.resource) <> 'text' OR length(NEW.resource) NOT BETWEEN 1 AND 255
                OR instr(NEW.resource, char(0)) > 0
                OR NEW.resource GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*';
        SELECT RAISE(ABORT, 'pawl: a token is an integer > 0 and < 2^63')
        WHERE typeof(NEW.token) <> 'integer' OR NEW.token < 1;
        SELECT RAISE(ABORT, 'pawl: the marks were made by another version of pawl')
        WHERE (SELECT version FROM pawl_floor) IS NOT 1;
        SELECT RAISE(ABORT,
                     'pawl: stale token: a greater one has been admitted, to a later holder or from another store of locks')
        WHERE (NEW.token >= coalesce((SELECT token FROM pawl_mark WHERE resource = NEW.resource),
                                     (SELECT token FROM pawl_floor))) IS NOT 1;
        UPDATE pawl_mark SET token = NEW.token WHERE resource = NEW.resource;
        INSERT INTO pawl_mark(resource, token)
        SELECT NEW.resource, NEW.token WHERE NOT EXISTS (SELECT 1 FROM pawl_mark WHERE resource = NEW.resource);
END;

-- By which swap of the library a version was made: one whose answer was lost is known again by its id.
CREATE TABLE IF NOT EXISTS pawl_swapped(
        resource TEXT NOT NULL PRIMARY KEY,
        version INTEGER NOT NULL,
        id INTEGER NOT NULL
) WITHOUT ROWID;

CREATE VIEW IF NOT EXISTS pawl_swap(resource, version) AS SELECT resource, token FROM pawl_mark;

CREATE TRIGGER IF NOT EXISTS pawl_swap_version INSTEAD OF INSERT ON pawl_swap
BEGIN
        SELECT RAISE(ABORT, 'pawl: a version is an integer >= 0 and < 2^63 - 1')
        WHERE typeof(NEW.version) <> 'integer' OR NEW.version < 0 OR NEW.version = 9223372036854775807;
        SELECT RAISE(ABORT, 'pawl: stale version: it is another by now; read it again')
        WHERE (NEW.version = coalesce((SELECT token FROM pawl_mark WHERE resource = NEW.resource),
                                      (SELECT token FROM pawl_floor))) IS NOT 1;
        INSERT INTO pawl_admit(resource, token) VALUES (NEW.resource, NEW.version + 1);
END;
