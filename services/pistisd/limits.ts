// Everything in the daemon has a limit, and this is where they are named.

/** On the disk, kept free for the daemon's own records: the longest command's fits. */
export const RESERVE_BYTES = 1024 * 1024;
/** Commands whose shell runs or that left processes behind. */
export const COMMANDS_MAX = 128;
/** Bytes of one command's output that are kept from its start. */
export const OUTPUT_HEAD_BYTES = 256 * 1024 * 1024;
/** Bytes of the end of an output that outgrew the head; the most that a result's excerpt can ask for. */
export const OUTPUT_TAIL_BYTES = 256 * 1024;
/** Kept output of all commands that ended, together; beyond it the oldest is dropped. */
export const OUTPUT_TOTAL_BYTES = 1024 * 1024 * 1024;
/** Newest finished commands that `processes` still names; an older one only while something of it runs. */
export const FINISHED_LISTED_MAX = 200;
/** Of each command that `processes` names; as much as the brain shows. All of them together fit into one frame. */
export const LISTED_COMMAND_CHARACTERS_MAX = 200;

/** Time that a command gets between TERM and KILL when its time is up. */
export const TIMEOUT_GRACE_MS = 2_000;
/** How long killing goes on before what is left is called unkillable. */
export const KILL_PATIENCE_MS = 5_000;
/** How often a dying group is looked at again. */
export const KILL_CHECK_MS = 15;
/** After a command was ended, how long its pipe may take to say so. */
export const OUTPUT_END_MS_MAX = 250;
/** A command text longer than this does not fit into one argument of a process. */
export const COMMAND_ARGUMENT_BYTES_MAX = 96 * 1024;

/** Bytes waiting in the socket beyond which no stream sends more. */
export const SOCKET_BUFFER_BYTES_MAX = 1024 * 1024;
/** Server-side peers of one sandbox. */
export const CHANNELS_MAX = 64;
/** Requests of one channel that are not answered yet. */
export const REQUESTS_MAX = 256;

/** Connections of commands to the sandbox's proxy. */
export const WAYS_OUT_MAX = 256;

export const PING_EVERY_MS = 4_000;
/** Nothing heard from the relay for this long: the connection is dead. */
export const SILENCE_MS_MAX = 10_000;
/** How often the daemon looks whether it stood still, and for how long it may have. */
export const STALL_CHECK_MS = 500;
export const STALL_MS_MAX = 2_500;
export const CONNECT_MS_MAX = 10_000;
export const RECONNECT_MS_MIN = 50;
export const RECONNECT_MS_MAX = 15_000;
export const JOIN_RETRY_MS_MAX = 5_000;

export const FILE_BYTES_MAX = 8 * 1024 * 1024 * 1024;
/** A file that is edited is held in memory whole. */
export const EDIT_BYTES_MAX = 32 * 1024 * 1024;
/** A larger file is skipped by search. */
export const SEARCH_FILE_BYTES_MAX = 8 * 1024 * 1024;
export const SEARCH_LINE_CHARACTERS_MAX = 1_000;
export const SEARCH_ANSWER_BYTES_MAX = 768 * 1024;
export const LIST_ANSWER_BYTES_MAX = 768 * 1024;
