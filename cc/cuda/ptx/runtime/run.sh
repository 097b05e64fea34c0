#!/bin/sh
# Runs a program with its arguments.
exec "$@"
