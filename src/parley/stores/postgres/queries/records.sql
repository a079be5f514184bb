-- Records. {paging} stands for where a page begins, {direction} for ASC or DESC.

-- name: get
SELECT collection, tenant, id, sort, revision, value FROM records WHERE collection = $1 AND tenant = $2 AND id = $3

-- name: of_tenant
SELECT collection, tenant, id, sort, revision, value FROM records WHERE collection = $1 AND tenant = $2 {paging}
ORDER BY sort {direction}, id {direction} LIMIT $3

-- name: of_all
SELECT collection, tenant, id, sort, revision, value FROM records WHERE collection = $1 {paging}
ORDER BY tenant, id LIMIT $2

-- name: count
SELECT count(*) FROM records WHERE collection = $1 AND tenant = $2

-- name: lock
-- The revisions of records, which are locked until the transaction ends. Every process locks in the order of the keys.
SELECT records.collection, records.tenant, records.id, revision
FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (collection, tenant, id)
JOIN records ON records.collection = wanted.collection AND records.tenant = wanted.tenant AND records.id = wanted.id
ORDER BY records.collection, records.tenant, records.id
FOR UPDATE OF records

-- name: insert
-- Without ON CONFLICT: one that another process has made meanwhile must fail.
INSERT INTO records (collection, tenant, id, sort, revision, value)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])

-- name: update
UPDATE records SET sort = new.sort, revision = new.revision, value = new.value
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
    AS new (collection, tenant, id, sort, revision, value)
WHERE records.collection = new.collection AND records.tenant = new.tenant AND records.id = new.id

-- name: delete
DELETE FROM records USING unnest($1::text[], $2::text[], $3::text[]) AS old (collection, tenant, id)
WHERE records.collection = old.collection AND records.tenant = old.tenant AND records.id = old.id

-- name: next_number
INSERT INTO number_series (name, tenant, last_number) VALUES ($1, $2, $3)
ON CONFLICT (name, tenant) DO UPDATE SET last_number = greatest(number_series.last_number + 1, excluded.last_number)
RETURNING last_number
