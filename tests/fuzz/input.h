#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdint.h>
#include <string.h>

/* A reader of the input; short of bytes it gives zeroes. */
struct input {
	const uint8_t *at;
	size_t left;
};

static inline void input_take(struct input *input, void *to, size_t bytes)
{
	size_t some = bytes < input->left ? bytes : input->left;

	memset(to, 0, bytes);
	memcpy(to, input->at, some);
	input->at += some;
	input->left -= some;
}

static inline uint8_t input_byte(struct input *input)
{
	uint8_t byte;

	input_take(input, &byte, 1);
	return byte;
}

#endif
