// Package codec turns typed keys and values into the bytes of Kafka records and back.
package codec
