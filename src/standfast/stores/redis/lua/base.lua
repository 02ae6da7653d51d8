-- uses: clock
-- Part: how keys are named, and what most scripts need. Every key of a store begins with KEYS[1], a hash tag, so that
-- all of them are in one slot of a cluster. KEYS[1] itself is no key. Micros are microseconds since 1970.
--
-- Jobs
--   job:<id>          string  the job as it was accepted, which never changes: 15 digits that number its arrival,
--                             16 digits of micros when, 4 bytes with the length of what follows, a MessagePack
--                             array (rows.py), and the payload
--   life:<id>         hash    what became of it since, if anything did (lives.lua)
--   memo:<id>         hash    its memos, if it has any: name to a stamp and the body (remembering.lua)
--   done:<id>         string  a completion that is all there is to say: instead of a life (done.lua)
--   all               zset    every id, score 0: read backwards, newest first
--   dead              zset    the dead ones, score 0
--   tag:<tag>         zset    those with a tag, score 0
--   keyed:<key>       zset    those that came with a key, score 0
--   ended             zset    completed and cancelled ones by when
--   kept              zset    instead of it, completed ones whose key is kept, by when that is over
--   fading            zset    those with a result to forget, by when
--   tally             hash    <state>:<queue> to how many; those that wait for their time are counted in lanes
--   arrivals          string  the last number of an arrival; also how often the bell was rung for work
-- Waiting (lanes.lua)
--   queues            zset    queues that have lanes, score 0: by name
--   lanes:<queue>     set     the lanes of a queue
--   lane:<length of the queue's name>:<queue>:<lane>   zset   jobs by run_at, those of one time by arrival
--   again:<queue>     zset    ids of those that wait for their time after an earlier claim, by run_at; not suspended ones
--   unknown           hash    <version>:<task> to how many are blocked(no_worker)
--   suspects          set     queues that have, or had, suspects
--   paused            hash    queue to micros since when
-- Keys (keys.lua)
--   key:<length of the task's name>:<task>:<key>       string  the id of the job that has it. May expire.
--   followers         hash    claimed job to the one that is blocked(replacing) after it
-- Records
--   records:<kind>    hash    name to a record (rows.py): 15 digits of its version, 4 bytes with the length of what
--                             follows, a MessagePack array, and the body
--   due:<kind>        zset    names of records that are due some time, by when
--   fires:<schedule>  zset    fires by when they were planned, each <cause>:, 16 digits of micros when it was decided,
--                             and a MessagePack array (rows.py)
--   fired             zset    schedules that have fires, by when the latest was planned
-- Workers
--   claims            hash    id of a claimed job to its claim (claims.lua)
--   held:<worker>     set     ids of the jobs that a worker has
--   workers           hash    worker to its registration: number, micros, lease, what it said of itself, its group
--   leases            zset    workers by when their lease runs out
--   condemned         set     workers marked dead, until they are buried
--   buried            zset    workers that were buried, by when; forgotten after a day
--   peers:<group>     zset    workers that serve the same queues, score 0: by id (peers.lua)
--   polled:<group>    zset    those of them that said when they last looked for work without being called, by when
--   vitals            hash    worker to how it was at its last beat with such news (JSON, stores/values.py)
--   hires             string  the last number of a registration
--   format            string  which way of keeping jobs this is (engine.py); set when a worker registers
-- and those of the bell (bell.lua).
--
-- A server that is full refuses a script if its first write may need room, and does not look again after that. Only
-- new jobs, new records and signals should be refused so: every script without such begins with a write that takes something
-- away, be it what is written again at once.

-- A number of micros as text: what Lua makes of it by itself has 14 digits.
local function micros(number)
    return string.format('%.0f', number)
end

-- As many arguments as one call takes with ease; Lua's own limit is 8000.
local BITE = 4000

-- Call a command with a key and a list of arguments, however long.
local function in_bites(command, key, arguments)
    for first = 1, #arguments, BITE do
        call(command, key, unpack(arguments, first, math.min(first + BITE - 1, #arguments)))
    end
end

-- Set keys to values, both in one list, however long.
local function set_all(pairs_of_them)
    for first = 1, #pairs_of_them, BITE do
        call('MSET', unpack(pairs_of_them, first, math.min(first + BITE - 1, #pairs_of_them)))
    end
end
