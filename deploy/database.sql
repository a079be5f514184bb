-- The role and the database of Parley, with no more rights than it needs. Run it once, as a superuser, with psql 15 or newer:
--
--   PARLEY_DATABASE_PASSWORD=… psql --set=ON_ERROR_STOP=1 --file=deploy/database.sql postgresql://postgres@host/postgres
--
-- Parley owns one schema and creates its tables there, so that it can migrate them. It is not a superuser, can neither create
-- roles nor databases, and reads no other database.
\getenv password PARLEY_DATABASE_PASSWORD
CREATE ROLE parley LOGIN PASSWORD :'password' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
CREATE DATABASE parley ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE parley FROM PUBLIC;
GRANT CONNECT ON DATABASE parley TO parley;
\connect parley
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA parley AUTHORIZATION parley;
ALTER ROLE parley IN DATABASE parley SET search_path = parley;

-- For monitoring and for people who look but must not touch: GRANT parley_reader TO …;
CREATE ROLE parley_reader NOLOGIN;
GRANT CONNECT ON DATABASE parley TO parley_reader;
GRANT USAGE ON SCHEMA parley TO parley_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE parley IN SCHEMA parley GRANT SELECT ON TABLES TO parley_reader;
