/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths of the volume, added and removed while it is used. Control loop only. */
#pragma once

struct bridge;
struct error;
struct json_object;

/* "address": "ADDRESS:PORT". 0, or -errno with *error. The path then connects, or leaves. */
int bridge_path_add(struct bridge *bridge, struct json_object *params, struct error *error);
int bridge_path_remove(struct bridge *bridge, struct json_object *params, struct error *error);
/* A path leaves, by discovery perhaps: it is seen off, if no other is. */
void bridge_path_look(struct bridge *bridge);
/* The process ends: a path that leaves stays, unless its Flush is out; then bridge_stop_goes_on
 * follows. */
void bridge_path_stop(struct bridge *bridge);
