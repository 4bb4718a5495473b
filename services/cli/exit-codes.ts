export const EXIT_OK = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
/** As a shell reports a program that Ctrl-C ended. */
export const EXIT_INTERRUPTED = 130;
