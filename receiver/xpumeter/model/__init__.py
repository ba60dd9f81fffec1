# SPDX-License-Identifier: Apache-2.0
"""Every noun, and no verb: what the stages hand to each other, frozen."""
