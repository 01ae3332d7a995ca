-- Makes each CREATE INDEX one of bedload, if it asks for no UNIQUE and bedload has classes for its types.
CREATE EXTENSION bedload;
CREATE SCHEMA switching;
GRANT USAGE ON SCHEMA switching TO PUBLIC;

CREATE TABLE switching.switched (definition text);

-- Indexes that stay as they are, and why.
CREATE TABLE switching.kept (definition text, reason text);

CREATE FUNCTION switching.reason_to_keep(index regclass, definition text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE
        -- These tests are about long values.
        WHEN definition ~ ' ON \S*(cmdata|strtest|no_index_cleanup) ' THEN 'keys of more than 675 bytes are refused'
        -- Where CREATE INDEX CONCURRENTLY fails it leaves a B-tree, which no trigger sees, for the next statement.
        WHEN definition ~ ' ON .*(idxpart|parted_isvalid).* / ' THEN 'a test of builds that fail'
        WHEN (SELECT reltablespace > 0 FROM pg_class WHERE oid = index) THEN 'its definition does not tell its tablespace'
        WHEN definition ~ ' ON \S*reloptions_test ' THEN 'there is no fillfactor'
        WHEN definition ~ ' ON \S*abbrev_abort_uuids ' THEN 'CLUSTER takes no index whose rows are looked at again'
    END
$$;

CREATE FUNCTION switching.switch() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    made regclass;
    definition text;
    reason text;
BEGIN
    FOR made IN
        SELECT command.objid FROM pg_event_trigger_ddl_commands() command
            JOIN pg_index ON indexrelid = command.objid
            JOIN pg_class ON pg_class.oid = command.objid
            JOIN pg_am ON pg_am.oid = relam
        WHERE command.classid = 'pg_class'::regclass AND amname = 'btree' AND NOT indisunique
    LOOP
        definition := pg_get_indexdef(made);
        -- It says ONLY of all indexes of partitioned tables. One that was made so is not valid.
        IF (SELECT indisvalid FROM pg_index WHERE indexrelid = made) THEN
            definition := replace(definition, ' ON ONLY ', ' ON ');
        END IF;
        reason := switching.reason_to_keep(made, definition);
        IF reason IS NULL THEN
            BEGIN
                EXECUTE format('DROP INDEX %s', made);
                EXECUTE replace(definition, ' USING btree ', ' USING bedload ');
                INSERT INTO switching.switched VALUES (definition);
                CONTINUE;
            EXCEPTION WHEN undefined_object OR feature_not_supported OR invalid_parameter_value OR
                dependent_objects_still_exist OR program_limit_exceeded THEN
                reason := SQLERRM;
            END;
        END IF;
        INSERT INTO switching.kept VALUES (definition, reason);
    END LOOP;
END
$$;

CREATE EVENT TRIGGER switching ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION switching.switch();
