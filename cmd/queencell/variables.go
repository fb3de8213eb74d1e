package main

import (
	"fmt"
	"io"
	"reflect"
)

// variable is one line of help and config.
type variable struct {
	Name, Default, Value, Accepts, Meaning string
}

// variablesOf lists the variables of a configuration struct, in its order, with their values in vars.
func variablesOf(cfg any, vars map[string]string) []variable {
	t := reflect.TypeOf(cfg)
	var list []variable
	for i := range t.NumField() {
		field := t.Field(i)
		name := field.Tag.Get("env")
		v := variable{
			Name:    name,
			Default: field.Tag.Get("envDefault"),
			Value:   masked(field, vars[name]),
			Meaning: field.Tag.Get("desc"),
		}
		if shown := field.Tag.Get("shown"); shown != "" {
			v.Default = "(" + shown + ")"
		}
		v.Accepts, _ = accepted(field, "")
		if v.Value == "" {
			v.Value = v.Default
		}
		list = append(list, v)
	}
	return list
}

// masked is the value of a variable as it may be printed.
func masked(field reflect.StructField, value string) string {
	if value != "" && field.Tag.Get("secret") == "true" {
		return "********"
	}
	return value
}

// printVariables writes one paragraph a variable. With values it says what each is now.
func printVariables(w io.Writer, list []variable, values bool) {
	for _, v := range list {
		if values {
			fmt.Fprintf(w, "%s=%s\n", v.Name, v.Value)
		} else {
			fmt.Fprintf(w, "%s\n", v.Name)
		}
		fmt.Fprintf(w, "    %s\n    default: %s; accepts: %s\n", v.Meaning, orNothing(v.Default), v.Accepts)
	}
}

func orNothing(s string) string {
	if s == "" {
		return "(empty)"
	}
	return s
}
