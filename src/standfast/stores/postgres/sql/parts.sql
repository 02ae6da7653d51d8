-- What statements of several files share.

-- part: moment
-- The time, read once: the one that is given, or else the server's.
moment AS MATERIALIZED (SELECT standfast.present(:now) AS now)

-- part: fresh_of_level
-- The fresh jobs of a level from its mark on, first ones first. All of them are due.
fresh.queue = level.queue AND fresh.priority = level.priority AND fresh.xid >= level.mark
ORDER BY fresh.xid, fresh.seq

-- part: number
-- How many claims a row of the history stands for.
CASE attempt.ended_by WHEN 'folded' THEN substring(attempt.log FROM '^[0-9]+')::numeric ELSE 1 END

-- part: mark
-- From where a level is walked. A mark that is beyond this server's present is another server's, and says nothing.
CASE WHEN noted.mark <= asker.xmin THEN noted.mark ELSE '0'::xid8 END AS mark

-- part: signature
-- What changes whenever a level comes or goes, or a queue is paused or resumed.
concat(
    (SELECT sum(hashtextextended(level.queue, level.priority)) FROM standfast.level AS level), ' ',
    (SELECT sum(hashtextextended(paused.name, 0)) FROM standfast.queue AS paused)
)

-- part: is_unmarked
-- The row of a level counts for those who enqueue (levels.sql).
level.xid < (1::bigint << 61)::text::xid8

-- part: group
-- The group of a suspect that waits.
coalesce((SELECT suspect.size FROM standfast.suspect AS suspect WHERE suspect.id = waiting.id), 1)
