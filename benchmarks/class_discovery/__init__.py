"""Class discovery on real words: is a sound recognised that a device never heard?"""
