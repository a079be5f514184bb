-- Leases, by the clock of the database, or by a moment that is given (for tests).

-- name: renew
INSERT INTO leases (worker, expires_at, report)
VALUES ($1, coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + $3::bigint, coalesce($4::text, '{}'))
ON CONFLICT (worker) DO UPDATE SET expires_at = excluded.expires_at, report = coalesce($4::text, leases.report)
RETURNING is_asked_to_drain

-- name: live
SELECT worker FROM leases
WHERE expires_at > coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)

-- name: workers
SELECT worker, expires_at - now_at.moment, report, is_asked_to_drain
FROM leases, (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS moment) AS now_at
WHERE expires_at > now_at.moment - $2::bigint
ORDER BY worker

-- name: ask_to_drain
UPDATE leases SET is_asked_to_drain = TRUE
WHERE worker = $1 AND expires_at > coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
RETURNING 1

-- name: release
DELETE FROM leases WHERE worker = $1
    OR expires_at < coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) - $3::bigint
