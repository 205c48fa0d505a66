/* What the files of the program section share. */
#ifndef SECTION_H
#define SECTION_H

long section_other_add(long n);
const char *section_other_name(void);
void section_reset(void);

long section_library_add(long n);

#endif
