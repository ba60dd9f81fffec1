// SPDX-License-Identifier: Apache-2.0
/* Reads the workload's command line; workload.c says what it may be. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

const char *const kind_names[KINDS] = {"submit", "alloc", "free", "wait", "other"};

void die(int status, const char *what, const char *which)
{
	fprintf(stderr, "workload: %s: %s\n", which, what);
	exit(status);
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end)
		die(64, "not a number", text);
	return value;
}

static void read_word(struct order *order, char *word)
{
	char *equals = strchr(word, '=');

	if (word[0] == '/') {
		if (order->node_count == NODES)
			die(64, "too many nodes", word);
		order->nodes[order->node_count++] =
			(struct node){.path = word, .ordered[OTHER] = 1};
		return;
	}
	if (!order->node_count || !equals)
		die(64, "NODE [KIND=N]... expected", word);
	*equals = 0;
	for (int kind = 0; kind < KINDS; kind++)
		if (!strcmp(word, kind_names[kind])) {
			order->nodes[order->node_count - 1].ordered[kind] = number(equals + 1);
			return;
		}
	die(64, "no such kind", word);
}

static void check(const struct node *node)
{
	if (node->ordered[FREE] > node->ordered[ALLOC])
		die(64, "more free than alloc", node->path);
	if (node->ordered[WAIT] && !node->ordered[ALLOC])
		die(64, "wait needs an alloc", node->path);
	if (node->ordered[ALLOC] - node->ordered[FREE] >= HANDLES)
		die(64, "too many allocs that are not freed", node->path);
	if (!node->ordered[OTHER])
		die(64, "other=0: the driver's name must be asked for", node->path);
}

void read_order(struct order *order, int argc, char **argv)
{
	static const struct option options[] = {
		{"threads", required_argument, 0, 't'}, {"pause-us", required_argument, 0, 'p'},
		{"hold-s", required_argument, 0, 'h'},	{"speed", required_argument, 0, 's'},
		{"hang", no_argument, 0, 'g'},		{0}};
	int option;

	order->threads = 1;
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1)
		switch (option) {
		case 't':
			order->threads = number(optarg);
			break;
		case 'p':
			order->pause_us = number(optarg);
			break;
		case 'h':
			order->hold_s = number(optarg);
			break;
		case 's':
			order->speed = number(optarg);
			break;
		case 'g':
			order->hang = 1;
			break;
		default:
			exit(64);
		}
	for (; optind < argc; optind++)
		read_word(order, argv[optind]);
	if (!order->node_count || !order->threads)
		die(64, "a node and a thread at least", "usage");
	for (unsigned long i = 0; i < order->node_count; i++)
		check(&order->nodes[i]);
}
